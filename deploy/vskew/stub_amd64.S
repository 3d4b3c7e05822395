# What a moved process runs instead of the clock functions of its vDSO. It is position-independent and keeps to the C
# calling convention; stub_amd64.bin is what it assembles to:
#
#	as -o stub.o stub_amd64.S && objcopy -O binary -j .text stub.o stub_amd64.bin
#
# Every question goes to the kernel, and an offset in nanoseconds is added to the two wall clocks. There are two offsets,
# and one byte says which of them counts: a new offset is written where nobody reads, and one byte that changes is never
# seen half changed.

	.text
	.balign 16
clock_gettime:				# edi: the clock, rsi: the answer
	mov $228,%eax
	syscall
	test %eax,%eax
	jne 9f
	test %edi,%edi			# CLOCK_REALTIME
	je 1f
	cmp $5,%edi			# CLOCK_REALTIME_COARSE
	jne 9f
1:	movzbl which(%rip),%eax
	lea offsets(%rip),%rdx
	mov (%rdx,%rax,8),%r8
	mov (%rsi),%rax			# seconds
	mov $1000000000,%ecx
	imul %rcx,%rax
	add 8(%rsi),%rax		# nanoseconds
	add %r8,%rax
	cqo
	idiv %rcx
	mov %rax,(%rsi)
	mov %rdx,8(%rsi)
	xor %eax,%eax
9:	ret

	.balign 16
gettimeofday:				# rdi: the answer or NULL, rsi: the time zone or NULL
	mov $96,%eax
	syscall
	test %eax,%eax
	jne 9f
	test %rdi,%rdi
	je 9f
	movzbl which(%rip),%eax
	lea offsets(%rip),%rdx
	mov (%rdx,%rax,8),%rax
	cqo
	mov $1000,%ecx
	idiv %rcx			# the offset in microseconds
	mov (%rdi),%r8
	imul $1000000,%r8,%r8
	add 8(%rdi),%r8
	add %r8,%rax
	cqo
	mov $1000000,%ecx
	idiv %rcx
	mov %rax,(%rdi)
	mov %rdx,8(%rdi)
	xor %eax,%eax
9:	ret

	.balign 16
time:					# rdi: where the answer goes as well, or NULL
	mov %rdi,%r9
	sub $24,%rsp
	mov %rsp,%rsi
	xor %edi,%edi
	call clock_gettime
	mov (%rsp),%rax
	add $24,%rsp
	test %r9,%r9
	je 9f
	mov %rax,(%r9)
9:	ret

	.balign 16
offsets:
	.quad 0
	.quad 0
which:
	.quad 0

-- Everything that was received is replayed first. true: it is waited for, as many seconds as $1.
SELECT pg_promote(true, $1)

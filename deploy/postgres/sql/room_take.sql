INSERT INTO room SELECT repeat('x', 100) FROM generate_series(1, 2000)

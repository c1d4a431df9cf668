"""What is stored and asked: changes, questions, and hash tables in memory, in SQLite and on Ray (Sec. 3.1)."""

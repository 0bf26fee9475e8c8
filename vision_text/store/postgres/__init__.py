"""Collections in PostgreSQL with pgvector, for writers and readers on many hosts."""

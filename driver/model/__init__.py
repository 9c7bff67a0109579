"""Models: tables of programs, which calls choose from and compile on demand."""

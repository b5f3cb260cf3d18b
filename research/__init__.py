"""What reproduces the paper and what measures dcfsc. Not part of the wheel."""

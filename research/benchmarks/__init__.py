"""Speed, memory and quality, beside peers: ``python -m research bench NAME``."""

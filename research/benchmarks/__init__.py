"""Speed, memory and quality beside peers in the same run, and which results are out of date."""

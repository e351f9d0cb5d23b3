"""compare: run folders -> arms, statistics, a verdict in words, and one page."""

"""One page that says all about a run or a run set, readable without a network."""

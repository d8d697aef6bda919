"""Questions about a run that is not made: how often it would commit, who could be asked, what a trace looks like."""

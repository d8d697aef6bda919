"""One module per verb: parse, call, render; decisions are made elsewhere."""

"""Figures: columns of event files to plotly figures, and the files that hold them."""

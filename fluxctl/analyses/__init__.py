"""Analyses: questions to finished runs, each with a table, a figure and one plain sentence."""

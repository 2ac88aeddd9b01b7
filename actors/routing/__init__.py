"""Placement: the router actor and the policies it asks."""

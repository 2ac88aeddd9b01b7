"""Many runs of one spec with some of its values varied: points, their execution, and what came of them."""

"""The KV router: a placement policy that knows what ranks have cached and what they have to do."""

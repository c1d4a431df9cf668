"""`OnlineIndex`: the loop over a durable store, with its history and the rehash in the background."""

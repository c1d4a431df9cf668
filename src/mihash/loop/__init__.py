"""The loop of Fig. 2: blocks of a stream, quality on the sample, decisions, and `OnlineHashing` around a table."""

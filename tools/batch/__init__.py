"""Run models over the rows of a table, block by block, on several processes or machines."""

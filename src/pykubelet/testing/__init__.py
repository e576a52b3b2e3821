"""Stand-ins and harnesses for tests and demos; never imported by the product."""

"""What ACME adds to tessella."""

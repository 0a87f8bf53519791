"""Two processes that move scattered blocks through the NIXL Python interface, of whichever implementation."""

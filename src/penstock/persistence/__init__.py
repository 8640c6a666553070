"""What must outlive the broker, as octets for the store, and back."""

"""What a candidate policy would have done to traffic that was."""

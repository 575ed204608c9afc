"""Messages as client libraries encode them, recorded once (`record.py`), and what the bench makes of them."""

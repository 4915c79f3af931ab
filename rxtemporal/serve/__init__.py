"""HTTP edge of an application: receipts for what devices send, results for who asks."""

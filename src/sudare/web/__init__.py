"""The steward's page: a small web server for one organisation, which shows no record (extra `page`)."""

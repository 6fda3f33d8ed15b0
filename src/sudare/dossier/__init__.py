"""What somebody else needs to judge a release: the dossier of one, for a legal department, and the report of an account.

Texts stand here in English and Japanese side by side, because a dossier holds both. They are statements about a file, made from its
content; they are not legal advice, and say so.
"""

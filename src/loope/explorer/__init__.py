"""The interactive page behind `loope explore`: a small server, and the same page as static files.

The server computes with the library and sends numbers; the page in `static` draws them.
"""

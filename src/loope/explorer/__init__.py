"""The interactive page of `loope explore`, with a small server or as static files.

The server computes with the library and sends numbers; the page in `static` draws them.
"""

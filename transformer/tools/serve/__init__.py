"""--mode=serve: translates for other programs, over HTTP, and for people, on a page.

Read serve.py (the mode; its keys are in serve_keys.py), served.py (a model), application.py (what
can be asked; its JSON is in schema.py, limits of a body and metrics in guard.py), batching.py
(lines of several requests in common batches) and sentence_page.py (the page, with form.html and
form.css).
"""

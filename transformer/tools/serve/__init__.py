"""--mode=serve: translates for other programs, over HTTP, and for people, on a page.

Read serve.py (the mode; its keys are in serve_keys.py), served.py (a model, and the page of a
sentence, with form.html and form.css), application.py (what can be asked; its JSON is in schema.py,
limits of a body and metrics in guard.py) and batching.py (lines of several requests in common
batches).
"""

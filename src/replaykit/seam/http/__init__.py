"""HTTP at the seam: exchanges as calls, whatever library or proxy they pass through.

`call` holds the one class that asks the handler and writes outcomes down; `cleaning` what of a request and a response
may be written. The modules named after libraries only translate, and `seam.patches` puts them in place.
"""

"""HTTP at the seam: exchanges as calls, for every library and the proxy.

`call` holds the one class that asks the handler and records outcomes; `cleaning` decides what of a request and a
response may be stored. The modules named after libraries only translate, and `seam.patches` installs them.
"""

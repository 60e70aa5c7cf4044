"""Doctor: what this machine offers, what ReplayKit finds in a project, and what to type where something is wrong.

Only reads. No SDK, framework or agent is imported, no file is written, and the only programs that are started are git
and node, to ask for their versions and for ignore rules.
"""

from __future__ import annotations

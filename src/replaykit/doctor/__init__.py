"""Doctor: check the machine and the project, and suggest commands for what is wrong.

It only reads. No SDK, framework or agent is imported and no file is written. The only programs it starts are git and
node, for their versions and for ignore rules.
"""

from __future__ import annotations

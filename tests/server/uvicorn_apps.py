"""Apps for plain uvicorn: alone, and mounted in an app that passes no lifespan on."""

import os

from starlette.applications import Starlette
from starlette.routing import Mount

from argstream import Agent
from argstream.models import ScriptedModel
from argstream.server import AgentServer

model = ScriptedModel("word " * 1_000, repeat=True, delay=0.01)
alone = AgentServer(Agent(model, store=os.environ["STORE"]), token=None)
mounted = Starlette(routes=[Mount("/", alone)])

"""Apps for a plain uvicorn: ours alone, and inside another, which gives it no lifespan."""

import os

from starlette.applications import Starlette
from starlette.routing import Mount

from argstream import Agent
from argstream.models import ScriptedModel
from argstream.server import AgentServer

model = ScriptedModel("word " * 1_000, repeat=True, delay=0.01)
alone = AgentServer(Agent(model, store=os.environ["STORE"]), token=None)
mounted = Starlette(routes=[Mount("/", alone)])

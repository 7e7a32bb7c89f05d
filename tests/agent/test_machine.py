"""The loop, by chance: whatever models, tools and people do, the order of design §3 holds.

A run is played without waiting for anything, event by event, with real payloads of each API. What
is checked, and against what, is in ``world``.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from argstream.agent import Conversation
from argstream.agent._state import LoopRules
from argstream.agent._toolbox import Toolbox
from tests.agent.chance import FREE, RULED
from tests.agent.world import SECONDS, World

rules = st.builds(
    LoopRules,
    max_turns=st.integers(1, 3),
    asks_in_place=st.booleans(),
    approval_seconds=st.sampled_from([None, SECONDS]),
    max_parallel_calls=st.sampled_from([1, 2, 32]),
)


@settings(max_examples=2 * settings().max_examples)
@given(st.data(), st.sampled_from([FREE, RULED]), rules, st.integers(1, 2))
def test_whatever_happens_the_order_holds_and_all_apis_take_the_history(
    data: st.DataObject, tools: Toolbox, rules: LoopRules, runs: int
) -> None:
    conversation = Conversation()
    for _ in range(runs):
        world = World(data.draw, tools, rules, conversation)
        world.play()
        conversation.messages = world.machine.final_messages

"""Messages between our agents and those of NIXL 1.5.1 arrive as they were sent."""

import random

MESSAGES = {
    "empty": b"",
    "nul": b"\0",
    "nul inside": b"before\0after\0",
    "separators": b"nixlSerDes|name\x04\0\0\0\0\0\0\0|msg",
    "no text": bytes(range(256)),
    "64 KiB": random.Random(1).randbytes(64 << 10),
    "1 MiB": random.Random(2).randbytes(1 << 20),
}


def test_every_kind_of_message_in_its_order(pair):
    initiator, target = pair
    initiator.learn(target)
    for message in MESSAGES.values():
        initiator.call("notify", peer=target.name, message=message)
    found = target.call("messages", count=len(MESSAGES))
    assert list(found) == [initiator.name]
    for wanted, message in zip(MESSAGES.items(), found[initiator.name], strict=True):
        assert message == wanted[1], wanted[0]


def test_many_messages_keep_their_order(pair):
    initiator, target = pair
    initiator.learn(target)
    sent = [b"%d" % number for number in range(500)]
    for message in sent:
        initiator.call("notify", peer=target.name, message=message)
    assert target.call("messages", count=len(sent)) == {initiator.name: sent}


def test_a_question_and_its_answer(pair):
    for agent, other in (pair, pair[::-1]):
        agent.learn(other)
    for agent, other in (pair, pair[::-1], pair):
        agent.call("notify", peer=other.name, message=b"from " + agent.name.encode())
        assert other.call("messages", count=1) == {agent.name: [b"from " + agent.name.encode()]}


def test_messages_of_1_mib_with_transfers_come_after_the_data(pair):
    initiator, target = pair
    size = 256 << 10
    local, remote = initiator.region("local", size, 31), target.region("remote", size, 32)
    initiator.learn(target)
    for name in ("1 MiB", "nul inside"):
        initiator.call(
            "transfer",
            operation="WRITE",
            peer=target.name,
            local=local.blocks([0], size),
            remote=remote.blocks([0], size),
            message=MESSAGES[name],
        )
        assert target.call("messages", count=1) == {initiator.name: [MESSAGES[name]]}
        remote.expected[:] = local.expected
        remote.check(4096)


def test_two_senders_are_told_apart(make_agent, kinds):
    target = make_agent(kinds[1], "target")
    senders = [make_agent(kinds[0], "initiator") for _ in range(2)]
    for sender in senders:
        sender.learn(target)
        sender.call("notify", peer=target.name, message=sender.name.encode())
    assert target.call("messages", count=2) == {sender.name: [sender.name.encode()] for sender in senders}

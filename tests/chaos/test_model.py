"""The model sees what is wrong, and nothing where all is right."""

import dataclasses

import numpy as np
import pytest

from chaos.engines import CANCELED, DISCONNECT, ENGINES, NOT_FOUND
from chaos.model import ARRIVAL_S, GRACE_S, RECOVERY_S, REPORT_S, Model
from chaos.stamps import GUARD, SIZES, Layout, Stamp, content, found, scattered

LANE, SLOT = 0, 2
STRICT = ENGINES["tcp"]
LENIENT = dataclasses.replace(STRICT, cut_off_loses=True)


class Story:
    """Two processes, 0 and 1, that do what a test says, at second `now`."""

    def __init__(self, engine=STRICT):
        self.model = Model(engine)
        self.now = 100.0
        self.version = 0
        self.number = 0
        for index in range(len(engine.packages)):
            self.model.born(index, 1, self.now)

    def tell(self, index, name, *arguments, life=1):
        self.model.take(index, life, [name, self.now, *arguments])

    def stamp(self, version=None, slot=SLOT, life=1):
        return Stamp(0, 1, life, slot, self.version if version is None else version).pack()

    def post(self, kind="write"):
        self.version += kind in ("write", "silent")
        self.number += kind in ("write", "notify")
        packed = self.stamp() if kind in ("write", "silent") else None
        number = self.number if kind in ("write", "notify") else None
        self.tell(0, "posted", 1, 1, LANE, kind, SLOT, packed, number)
        return kind, packed, number

    def end(self, run, status="DONE", seconds=0.1, deadline=None, wrong=()):
        kind, packed, number = run
        self.tell(0, "ended", 1, 1, LANE, kind, SLOT, packed, number, status, seconds, 0, deadline, list(wrong), "text")

    def arrive(self, run, stamps=None):
        _, packed, number = run
        held = [(packed, 8)] if packed else []
        self.tell(1, "got", 0, 1, LANE, number, SLOT, packed, held if stamps is None else stamps)

    def write(self):
        run = self.post()
        self.end(run)
        self.arrive(run)
        return run

    def finish(self):
        """What is wrong when all is over."""
        self.now += ARRIVAL_S + REPORT_S + 1
        self.model.step(self.now)
        return [*self.model.violations, *self.model.overdue(self.now)]


@pytest.fixture
def story():
    return Story()


def only(violations, words):
    (text,) = violations
    assert words in text


# ---- Content ----


@pytest.mark.parametrize("size", SIZES)
def test_content_names_itself(size):
    stamp = Stamp(3, 2, 77, 5, 1234)
    assert Stamp.unpack(stamp.pack()) == stamp
    assert found(content(stamp, size)) == [(stamp.pack(), size // 8)]
    assert (scattered(scattered(content(stamp, size))) == content(stamp, size)).all()
    assert size < 4096 or not (scattered(content(stamp, size)) == content(stamp, size)).all()


def test_torn_shifted_and_flipped_content_is_seen():
    old, new = (content(Stamp(0, 1, 1, 2, version), 4096) for version in (1, 2))
    torn = np.concatenate([new[:1024], old[1024:]])
    assert found(torn) == [(Stamp(0, 1, 1, 2, 1).pack(), 384), (Stamp(0, 1, 1, 2, 2).pack(), 128)]
    assert len(found(np.roll(new, 8))) > 1
    new[77] ^= 1
    assert sorted(count for _, count in found(new)) == [1, 511]


def test_slots_lie_between_guards_and_apart():
    layout = Layout(3)
    spans = sorted(
        [(at, SIZES[slot]) for (_, slot), at in layout.offsets.items()] + [(at, GUARD) for at in layout.guards]
    )
    assert len(layout.offsets) == 3 * len(SIZES)
    ends = [at + size for at, size in spans]
    assert [at for at, _ in spans] == [0, *ends[:-1]] and ends[-1] == layout.size


# ---- Notifications ----


def test_all_is_right(story):
    for _ in range(300):
        story.write()
    run = story.post("silent")
    story.end(run)
    assert story.model.outgoing[-1] == (1, 1, ["look", 0, LANE, SLOT, run[1]])
    story.tell(1, "looked", 0, LANE, SLOT, run[1], [(run[1], 8)])
    assert story.model.outgoing[-1] == (0, 1, ["checked", 1, LANE, SLOT])
    assert not story.finish()


def test_reports_in_another_order_are_right(story):
    runs = [("notify", None, 1), ("notify", None, 2)]
    story.arrive(runs[0])
    story.tell(0, "posted", 1, 1, LANE, "notify", SLOT, None, 1)
    story.tell(0, "posted", 1, 1, LANE, "notify", SLOT, None, 2)
    story.arrive(runs[1])
    for run in runs:
        story.end(run)
    assert not story.finish()


def test_a_lost_notification_is_missed_when_a_later_one_comes(story):
    story.end(story.post("notify"))
    story.write()
    only(story.finish(), "number 1, which was sent before it, did not: it is lost")


def test_a_lost_notification_is_missed_when_none_comes(story):
    story.write()
    story.end(story.post("notify"))
    only(story.finish(), "notification 2 of 0.1 in lane 0 was sent 21 s ago and is not there")


def test_a_notification_that_comes_twice(story):
    story.arrive(story.write())
    only(story.finish(), "came twice")


def test_a_notification_that_nobody_sent(story):
    story.arrive(("notify", None, 9))
    only(story.finish(), "notification 9 of 0.1 was never sent")


def test_one_of_a_failed_request_may_come_or_not(story):
    story.model.begin("cut", 1, story.now)
    lost, come = story.post(), None
    story.end(lost, DISCONNECT)
    come = story.post()
    story.end(come, DISCONNECT)
    story.arrive(come)
    story.write()
    assert not story.finish()


def test_what_a_dead_process_sent_may_be_lost(story):
    story.end(story.post("notify"))
    story.model.died(0, "kill", story.now)
    assert not story.finish()


def test_a_cut_off_request_takes_others_along_only_where_it_may():
    for engine, lost in ((STRICT, True), (LENIENT, False)):
        story = Story(engine)
        story.end(story.post("notify"))
        story.end(story.post(), CANCELED, seconds=1.0, deadline=1.0)
        story.write()
        assert bool(story.finish()) == lost
        assert story.model.by_fault["deadline"]["a notification lost"] == (not lost)


# ---- Bytes ----


def test_a_notification_before_its_data(story):
    story.write()
    run = story.post()
    story.end(run)
    story.arrive(run, [(story.stamp(1), 8)])
    only(story.finish(), "version 2 of slot 2 by 0.1 for 1 is not there, but 8 words of version 1 of slot 2")


def test_a_torn_write(story):
    run = story.post()
    story.end(run)
    story.arrive(run, [(run[1], 5), (story.stamp(0), 3)])
    only(story.finish(), "but 5 words of version 1 of slot 2 by 0.1 for 1, 3 words of version 0")


def test_a_failed_write_may_have_done_anything_of_it(story):
    story.write()
    story.model.begin("cut", 1, story.now)
    run = story.post()
    story.end(run, DISCONNECT)
    held = [(run[1], 5), (story.stamp(1), 3)]
    story.tell(1, "audited", [[0, SLOT, held]], [])
    assert not story.finish()
    story.tell(1, "audited", [[0, SLOT, [(story.stamp(7), 8)]]], [])
    only(story.finish(), "holds 8 words of version 7 of slot 2")


def test_a_request_that_is_done_and_was_not(story):
    run = story.post("silent")
    story.end(run)
    story.tell(1, "looked", 0, LANE, SLOT, run[1], [(story.stamp(0), 8)])
    only(story.finish(), "a write that was done: version 1 of slot 2")


def test_a_read_of_other_bytes(story):
    packed = Stamp(1, 1, 1, SLOT, 1).pack()
    story.end(("read", packed, None), wrong=[(1, 8)])
    only(story.finish(), "a read of version 1 of slot 2 by 1.1 for 1 gave 8 words")


def test_what_was_written_beside_slots(story):
    story.tell(1, "audited", [], [64])
    only(story.finish(), "bytes between slots were written to, at [64]")


def test_a_killed_writer_may_not_have_reported_its_last_version(story):
    story.write()
    story.model.died(0, "kill", story.now)
    story.tell(1, "audited", [[0, SLOT, [(story.stamp(2), 8)]]], [])
    assert not story.finish()
    story.tell(1, "audited", [[0, SLOT, [(story.stamp(9), 8)]]], [])
    assert len(story.finish()) == 1


# ---- Answers ----


def test_an_error_without_a_fault(story):
    story.end(story.post(), DISCONNECT)
    only(story.finish(), f"ended with {DISCONNECT}")


def test_an_error_because_of_another_process(story):
    story.model.begin("cut", 2, story.now)
    story.end(story.post(), DISCONNECT)
    only(story.finish(), "which no fault allows (near: cut of 2)")


def test_an_error_that_the_fault_does_not_allow(story):
    story.model.begin("cut", 1, story.now)
    story.end(story.post(), NOT_FOUND)
    only(story.finish(), NOT_FOUND)


@pytest.mark.parametrize("victim", [0, 1])
def test_errors_of_a_fault_until_a_little_after_it(story, victim):
    window = story.model.begin("cut", victim, story.now)
    story.end(story.post(), DISCONNECT)
    window.end = story.now
    story.now += GRACE_S
    story.end(story.post(), DISCONNECT)
    assert not story.finish()
    assert story.model.by_fault["cut"] == {DISCONNECT: 2}
    story.end(story.post(), DISCONNECT)
    assert len(story.finish()) == 1


def test_a_dead_peer_is_an_error_until_it_is_known_to_be_back(story):
    story.model.died(1, "kill", story.now)
    story.now += 100
    story.end(story.post(), DISCONNECT)
    assert not story.finish()


def test_a_deadline_is_an_answer_when_it_has_passed(story):
    story.end(story.post(), CANCELED, seconds=0.5, deadline=1.0)
    only(story.finish(), CANCELED)
    later = Story()
    later.end(later.post(), CANCELED, seconds=1.0, deadline=1.0)
    assert not later.finish()


def test_a_request_without_end(story):
    story.tell(0, "hangs", 1, 1, "write", 25.0)
    only(story.finish(), "a write to process 1.1 has no end after 25 s")


def test_a_restarted_peer_has_to_work_again(story):
    story.model.died(1, "kill", story.now)
    story.model.born(1, 2, story.now)
    story.tell(0, "loaded", 1, 2)
    story.model.step(story.now + RECOVERY_S - 1)
    assert not story.model.violations
    story.model.step(story.now + RECOVERY_S + 1)
    only(story.model.violations, "nothing to process 1.2 succeeded in 50 s")


def test_growth_of_files_and_memory(story):
    for files, memory in ((20, 100 << 20), (70, 400 << 20)):
        story.now += 10
        story.tell(0, "usage", files, memory)
    assert story.model.growth() == (50, 300 << 20)
    files, memory = story.model.grown()
    assert "50 more open files" in files and "300 MiB more" in memory


def test_a_notification_that_is_overtaken(story):
    first, second = story.post("notify"), story.post("notify")
    story.arrive(second)
    story.arrive(first)
    for run in (first, second):
        story.end(run)
    only(story.finish(), "notification 1 of process 0.1 in lane 0 came after number 2")


# ---- Peers that are taken for lost ----


def faults(story, *kinds_and_seconds, rest=0.3):
    for kind, victim, seconds in kinds_and_seconds:
        window = story.model.begin(kind, victim, story.now)
        story.now += seconds
        window.end = story.now
        story.now += rest


def lose(story):
    story.tell(0, "lost", 1, 1, "it does not answer")


def test_a_peer_that_lives_is_not_lost(story):
    faults(story, ("stop", 1, 2.5))
    lose(story)
    only(story.finish(), "takes process 1.1, which lives, for lost")


def test_faults_with_a_rest_between_do_not_add_up(story):
    faults(story, ("cut", 1, 1.5), ("silence", 0, 1.5), ("cut", 1, 1.5), rest=1.0)
    lose(story)
    only(story.finish(), "for lost")


@pytest.mark.parametrize("kind", ["deregister", "rate", "delay", "loss", "kill"])
def test_faults_that_silence_nobody_do_not_count(story, kind):
    faults(story, (kind, 1, 2.0), (kind, 0, 2.0), (kind, 1, 2.0))
    lose(story)
    only(story.finish(), "for lost")


def test_of_faults_that_follow_each_other_a_peer_may_be_taken_for_lost(story):
    faults(story, ("stop", 1, 2.0), ("cut", 0, 1.5))
    run = story.post("notify")
    story.now += 0.1
    lose(story)
    story.end(run, NOT_FOUND)
    story.now += 1
    story.tell(0, "loaded", 1, 1)
    story.write()
    assert story.finish() == []
    assert story.model.by_fault["taken for lost"][NOT_FOUND] == 1


def test_after_it_was_loaded_again_a_peer_is_known(story):
    faults(story, ("stop", 1, 2.0), ("cut", 0, 1.5))
    lose(story)
    story.now += 1
    story.tell(0, "loaded", 1, 1)
    story.now += GRACE_S
    story.end(story.post("notify"), NOT_FOUND)
    story.now += 1
    story.write()
    only(story.finish(), "which no fault allows")


@pytest.mark.parametrize("late", [False, True])
def test_what_a_peer_that_is_gone_did_not_take_in_need_not_come(story, late):
    run = story.post("notify")
    story.model.died(1, "kill", story.now)
    if late:
        story.tell(0, "undelivered", 1, LANE, run[2])
        story.end(run)
    else:
        story.end(run)
        story.tell(0, "undelivered", 1, LANE, run[2])
    assert story.finish() == []
    assert story.model.by_fault["kill"]["undelivered"] == 1


def test_a_notification_to_a_peer_that_lives_is_not_given_up(story):
    run = story.post("notify")
    story.end(run)
    story.tell(0, "undelivered", 1, LANE, run[2])
    only(story.finish(), "gives up notification 1")


def test_a_notification_to_a_peer_that_is_taken_for_lost_may_be_given_up(story):
    faults(story, ("stop", 1, 2.0), ("cut", 0, 1.5))
    run = story.post("notify")
    story.end(run)
    story.tell(0, "undelivered", 1, LANE, run[2])
    lose(story)
    assert story.finish() == []


def test_what_was_given_up_with_a_peer_may_come_late(story):
    faults(story, ("stop", 1, 2.0), ("cut", 0, 1.5))
    early = story.post("notify")
    story.end(early)
    story.tell(0, "undelivered", 1, LANE, early[2])
    lose(story)
    story.now += 1
    story.tell(0, "loaded", 1, 1)
    late = story.post("notify")
    story.end(late)
    story.arrive(late)
    story.arrive(early)
    assert story.finish() == []
    assert story.model.by_fault["taken for lost"]["a notification too late"] == 1


def test_a_new_life_may_have_written_before_it_was_reported(story):
    run = story.post()
    story.end(run)
    story.model.died(0, "kill", story.now)
    story.model.born(0, 2, story.now)
    story.arrive(run, [(story.stamp(version=1, life=2), 8)])
    assert story.finish() == []

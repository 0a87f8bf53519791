#include "engines/local/heartbeat.h"

#include <utility>
#include <vector>

namespace nixl::local {

void
Heartbeat::addFromLoop(const void *who, std::function<void()> beat) {
    beats_[who] = std::move(beat);
    if (timer_ == 0)
        waitFromLoop();
}

void
Heartbeat::removeFromLoop(const void *who) {
    beats_.erase(who);
    if (beats_.empty())
        loop_.cancelFromLoop(std::exchange(timer_, 0));
}

void
Heartbeat::waitFromLoop() {
    timer_ = loop_.afterFromLoop(kPeriod, [this] { beatFromLoop(); });
}

void
Heartbeat::beatFromLoop() {
    waitFromLoop();
    std::vector<const void *> all; // a beat may remove whom it belongs to, or another
    all.reserve(beats_.size());
    for (const auto &[who, beat] : beats_)
        all.push_back(who);
    for (const void *who : all) {
        const auto found = beats_.find(who);
        if (found == beats_.end())
            continue;
        const std::function<void()> beat = found->second; // outlives its removal
        beat();
    }
}

} // namespace nixl::local

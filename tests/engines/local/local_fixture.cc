#include "local_fixture.h"

#include <sstream>

namespace nixl::local {

namespace {

std::string
waitForMessages(Node &node, std::size_t count) {
    std::vector<Notification> got;
    const bool enough = eventually([&] {
        (void)node.engine().takeNotifications(got);
        return got.size() >= count;
    });
    std::string answer = enough ? "" : "timeout\n";
    for (const Notification &notification : got)
        answer += concat(notification.agent, "\n", notification.message.size(), "\n") + notification.message;
    return answer;
}

std::string
waitForFailures(Node &node, std::size_t count) {
    std::vector<FailedNotification> got;
    const bool enough = eventually([&] {
        node.engine().takeFailures(got);
        return got.size() >= count;
    });
    std::string answer = enough ? "" : "timeout\n";
    for (const FailedNotification &failed : got)
        answer += concat(failed.agent, "|", failed.message, "|", failed.why, "\n");
    return answer;
}

} // namespace

void
serveTarget(Line &line, Node &node) {
    for (;;) {
        std::istringstream command(line.receive());
        char what = 'q';
        std::uint64_t offset = 0;
        std::uint64_t length = 0;
        command >> what >> offset >> length;
        std::string answer = "ok";
        if (what == 'm')
            answer.assign(node.memory() + offset, length);
        else if (what == 'f')
            fillPattern(node.memory(), node.size(), static_cast<std::uint32_t>(offset));
        else if (what == 'u')
            munmap(node.memory() + offset, length);
        else if (what == 'p')
            mprotect(node.memory() + offset, length, PROT_READ);
        else if (what == 'n')
            answer = waitForMessages(node, offset);
        else if (what == 'e')
            answer = waitForFailures(node, offset);
        else if (what == 'd') {
            const Status status = node.leave();
            answer = concat(static_cast<int>(status.code()), " ", status.message());
        } else if (what == 'r') {
            node.enter();
            answer = node.card();
        } else if (what == 'x') {
            // From another thread than the one that made the engine, and not the control thread.
            std::thread([] { execlp("sleep", "sleep", "60", nullptr); }).join();
        } else {
            return;
        }
        line.send(answer);
    }
}

TargetProcess::TargetProcess(std::size_t bytes, const Options &options, const std::function<void()> &before,
                             Kind kind)
    : child_([&](Line &line) {
          before();
          Node node("target", bytes, options, nullptr, kind);
          line.send(node.card());
          serveTarget(line, node);
      }),
      card_(child_.line().receive()) {}

} // namespace nixl::local

#include "wire/pickle_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "wire/pickle_opcodes.h"

namespace nixl {

namespace {

constexpr std::string_view kXferClass = "nixlXferDList";
constexpr std::string_view kRegClass = "nixlRegDList";
constexpr std::string_view kModule = "nixl._bindings";
constexpr std::string_view kModules[] = {kModule, "nixl_cu12._bindings", "nixl_cu13._bindings",
                                         "nixl_rocm._bindings"};
constexpr std::uint8_t kFirstProtocol = 2;
constexpr std::uint8_t kLastProtocol = 5;

/// Foreign text for a message: printable, and not long.
std::string
quoted(std::string_view text) {
    constexpr std::size_t kMost = 80;
    std::string out = "'";
    for (const char c : text.substr(0, kMost))
        out += c >= ' ' && c <= '~' ? c : '?';
    return out + (text.size() > kMost ? "...'" : "'");
}

/// A class or function as a pickle names it.
struct GlobalName {
    std::string_view module;
    std::string_view name;
};

class Parser {
public:
    explicit Parser(std::string_view bytes) : bytes_(bytes) {}

    Result<PickledList> parse();

private:
    Status readProtocol();
    Result<GlobalName> readGlobal();
    Result<PickledKind> readClass();
    Result<std::string> readState();
    Result<std::string> readStateAsText();

    Status expect(pickle::Opcode wanted);
    Result<std::uint8_t> nextOpcode();
    Result<std::string_view> readText(std::uint8_t opcode);
    Result<std::string_view> readLine();
    Result<std::string_view> readSized(std::size_t bytesOfLength);
    Result<std::string_view> readBytes(std::uint64_t count);
    Status refused(std::uint8_t opcode, std::string_view wanted) const;

    std::string_view bytes_;
    std::size_t cursor_ = 0;
};

Result<PickledList>
Parser::parse() {
    NIXL_RETURN_IF_ERROR(readProtocol());
    const auto kind = readClass();
    if (!kind.ok())
        return kind.status();
    NIXL_RETURN_IF_ERROR(expect(pickle::kEmptyTuple));
    NIXL_RETURN_IF_ERROR(expect(pickle::kNewObj));
    auto state = readState();
    if (!state.ok())
        return state.status();
    NIXL_RETURN_IF_ERROR(expect(pickle::kBuild));
    NIXL_RETURN_IF_ERROR(expect(pickle::kStop));
    return PickledList{kind.value(), std::move(state).value()};
}

Status
Parser::readProtocol() {
    NIXL_RETURN_IF_ERROR(expect(pickle::kProto));
    const auto protocol = readBytes(1);
    if (!protocol.ok())
        return protocol.status();
    const auto number = static_cast<std::uint8_t>(protocol.value()[0]);
    if (number < kFirstProtocol || number > kLastProtocol)
        return Status::error(NIXL_ERR_MISMATCH, "the pickle has protocol ", int{number}, ", readable are ",
                             int{kFirstProtocol}, " to ", int{kLastProtocol});
    return {};
}

// GLOBAL with two lines, or two texts and STACK_GLOBAL.
Result<GlobalName>
Parser::readGlobal() {
    const auto opcode = nextOpcode();
    if (!opcode.ok())
        return opcode.status();
    const bool inLines = opcode.value() == pickle::kGlobal;
    const auto module = inLines ? readLine() : readText(opcode.value());
    if (!module.ok())
        return module.status();
    if (inLines) {
        const auto name = readLine();
        return name.ok() ? Result<GlobalName>(GlobalName{module.value(), name.value()}) : name.status();
    }
    const auto second = nextOpcode();
    if (!second.ok())
        return second.status();
    const auto name = readText(second.value());
    if (!name.ok())
        return name.status();
    NIXL_RETURN_IF_ERROR(expect(pickle::kStackGlobal));
    return GlobalName{module.value(), name.value()};
}

Result<PickledKind>
Parser::readClass() {
    const auto global = readGlobal();
    if (!global.ok())
        return global.status();
    const auto [module, name] = global.value();
    const bool known = std::find(std::begin(kModules), std::end(kModules), module) != std::end(kModules);
    if (known && name == kXferClass)
        return PickledKind::kXferList;
    if (known && name == kRegClass)
        return PickledKind::kRegList;
    return Status::error(NIXL_ERR_MISMATCH, "the pickle names ", quoted(name), " of module ", quoted(module),
                         "; only descriptor lists are read");
}

Result<std::string>
Parser::readState() {
    const std::size_t before = cursor_;
    const auto opcode = nextOpcode();
    if (!opcode.ok())
        return opcode.status();
    Result<std::string_view> state = std::string_view();
    switch (opcode.value()) {
    case pickle::kShortBinBytes:
        state = readSized(1);
        break;
    case pickle::kBinBytes:
        state = readSized(4);
        break;
    case pickle::kBinBytes8:
        state = readSized(8);
        break;
    case pickle::kGlobal:
        cursor_ = before;
        return readStateAsText();
    default:
        return refused(opcode.value(), "the list's state as bytes");
    }
    return state.ok() ? Result<std::string>(std::string(state.value())) : state.status();
}

// Protocol 2 has no bytes: they are a text of the characters U+0000 to U+00FF, to be encoded as latin1.
Result<std::string>
Parser::readStateAsText() {
    const auto function = readGlobal();
    if (!function.ok())
        return function.status();
    if (function.value().module != "_codecs" || function.value().name != "encode")
        return Status::error(NIXL_ERR_MISMATCH, "the pickle names ", quoted(function.value().name),
                             " of module ", quoted(function.value().module),
                             " where the list's state is expected");
    std::string_view texts[2];
    for (std::string_view &text : texts) {
        const auto opcode = nextOpcode();
        if (!opcode.ok())
            return opcode.status();
        const auto read = readText(opcode.value());
        if (!read.ok())
            return read.status();
        text = read.value();
    }
    if (texts[1] != "latin1")
        return Status::error(NIXL_ERR_MISMATCH, "the list's state has encoding ", quoted(texts[1]));
    NIXL_RETURN_IF_ERROR(expect(pickle::kTuple2));
    NIXL_RETURN_IF_ERROR(expect(pickle::kReduce));

    std::string state;
    state.reserve(texts[0].size());
    for (std::size_t i = 0; i < texts[0].size(); ++i) {
        const auto byte = static_cast<std::uint8_t>(texts[0][i]);
        if (byte < 0x80) {
            state.push_back(static_cast<char>(byte));
            continue;
        }
        const bool twoBytes = (byte == 0xc2 || byte == 0xc3) && i + 1 < texts[0].size() &&
                              (static_cast<std::uint8_t>(texts[0][i + 1]) & 0xc0) == 0x80;
        if (!twoBytes)
            return Status::error(NIXL_ERR_MISMATCH, "the list's state is not a latin1 text at its byte ", i);
        state.push_back(
            static_cast<char>((byte & 3) << 6 | (static_cast<std::uint8_t>(texts[0][++i]) & 0x3f)));
    }
    return state;
}

Status
Parser::expect(pickle::Opcode wanted) {
    const auto opcode = nextOpcode();
    if (!opcode.ok())
        return opcode.status();
    return opcode.value() == wanted ? Status() : refused(opcode.value(), pickle::opcodeName(wanted));
}

// Skips what has no meaning here: frames, and notes for later reference, as nothing refers to them.
Result<std::uint8_t>
Parser::nextOpcode() {
    for (;;) {
        const auto read = readBytes(1);
        if (!read.ok())
            return read.status();
        const auto opcode = static_cast<std::uint8_t>(read.value()[0]);
        std::size_t argument = 0;
        switch (opcode) {
        case pickle::kMemoize:
            continue;
        case pickle::kBinPut:
            argument = 1;
            break;
        case pickle::kLongBinPut:
            argument = 4;
            break;
        case pickle::kFrame:
            argument = 8;
            break;
        default:
            return opcode;
        }
        if (const auto skipped = readBytes(argument); !skipped.ok())
            return skipped.status();
    }
}

Result<std::string_view>
Parser::readText(std::uint8_t opcode) {
    switch (opcode) {
    case pickle::kShortBinUnicode:
        return readSized(1);
    case pickle::kBinUnicode:
        return readSized(4);
    case pickle::kBinUnicode8:
        return readSized(8);
    default:
        return refused(opcode, "a text");
    }
}

Result<std::string_view>
Parser::readLine() {
    const std::size_t end = bytes_.find('\n', cursor_);
    if (end == std::string_view::npos)
        return Status::error(NIXL_ERR_MISMATCH, "the pickle ends within a line at byte ", cursor_);
    const auto line = bytes_.substr(cursor_, end - cursor_);
    cursor_ = end + 1;
    return line;
}

Result<std::string_view>
Parser::readSized(std::size_t bytesOfLength) {
    const auto read = readBytes(bytesOfLength);
    if (!read.ok())
        return read.status();
    std::uint64_t length = 0;
    std::memcpy(&length, read.value().data(), bytesOfLength);
    return readBytes(length);
}

Result<std::string_view>
Parser::readBytes(std::uint64_t count) {
    const std::size_t remaining = bytes_.size() - cursor_;
    if (count > remaining)
        return Status::error(NIXL_ERR_MISMATCH, "the pickle ends too early: ", count,
                             " bytes are expected at byte ", cursor_, ", ", remaining, " follow");
    const auto read = bytes_.substr(cursor_, count);
    cursor_ += count;
    return read;
}

Status
Parser::refused(std::uint8_t opcode, std::string_view wanted) const {
    return Status::error(NIXL_ERR_MISMATCH, "opcode ", pickle::opcodeName(opcode), " at byte ", cursor_ - 1,
                         " of the pickle where ", wanted, " is expected");
}

void
appendText(std::string &out, std::string_view text) {
    out += static_cast<char>(pickle::kShortBinUnicode);
    out += static_cast<char>(text.size());
    out += text;
}

// With the shortest opcode, as Python's pickler does.
void
appendBytes(std::string &out, std::string_view payload) {
    const std::uint64_t length = payload.size();
    std::size_t bytesOfLength = 8;
    pickle::Opcode opcode = pickle::kBinBytes8;
    if (length <= 0xff) {
        bytesOfLength = 1;
        opcode = pickle::kShortBinBytes;
    } else if (length <= 0xffffffff) {
        bytesOfLength = 4;
        opcode = pickle::kBinBytes;
    }
    out += static_cast<char>(opcode);
    out.append(reinterpret_cast<const char *>(&length), bytesOfLength).append(payload);
}

} // namespace

Result<PickledList>
readPickledList(std::string_view bytes) {
    return Parser(bytes).parse();
}

std::string
writePickledList(PickledKind kind, std::string_view state) {
    constexpr char kFrontMatter[] = {static_cast<char>(pickle::kProto), 4};
    std::string out(kFrontMatter, sizeof(kFrontMatter));
    out.reserve(state.size() + 64);
    appendText(out, kModule);
    appendText(out, kind == PickledKind::kXferList ? kXferClass : kRegClass);
    out += static_cast<char>(pickle::kStackGlobal);
    out += static_cast<char>(pickle::kEmptyTuple);
    out += static_cast<char>(pickle::kNewObj);
    appendBytes(out, state);
    out += static_cast<char>(pickle::kBuild);
    out += static_cast<char>(pickle::kStop);
    return out;
}

} // namespace nixl

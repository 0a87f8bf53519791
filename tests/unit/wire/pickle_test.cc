#include "wire/pickle_reader.h"

#include <gtest/gtest.h>

#include "wire/desc_list.h"
#include "wire_bytes.h"

namespace nixl {
namespace {

std::string
shortText(const std::string &text) {
    return "\x8c" + std::string(1, static_cast<char>(text.size())) + text;
}

// Protocol 4, up to the state.
std::string
front(const std::string &module, const std::string &name) {
    return "\x80\x04" + shortText(module) + shortText(name) + "\x93)\x81";
}

std::string
refusal(const std::string &bytes) {
    const auto list = readPickledList(bytes);
    EXPECT_EQ(list.status().code(), NIXL_ERR_MISMATCH);
    return list.status().message();
}

TEST(PickleTest, WritesTheShortestProtocol4) {
    EXPECT_EQ(writePickledList(PickledKind::kXferList, "state"),
              front("nixl._bindings", "nixlXferDList") + "C\x05state" + "b.");
    EXPECT_EQ(writePickledList(PickledKind::kRegList, std::string(256, 'x')),
              front("nixl._bindings", "nixlRegDList") + std::string("B\0\x01\0\0", 5) +
                  std::string(256, 'x') + "b.");
}

TEST(PickleTest, ReadsWhatItWrites) {
    for (const std::size_t length : {0u, 1u, 255u, 256u, 70000u}) {
        const std::string state(length, '\xfe');
        const std::string bytes = writePickledList(PickledKind::kRegList, state);
        EXPECT_LE(bytes.size(), state.size() + 64);
        const auto list = readPickledList(bytes);
        ASSERT_TRUE(list.ok()) << list.status().message();
        EXPECT_EQ(list.value().kind, PickledKind::kRegList);
        EXPECT_EQ(list.value().state, state);
    }
}

TEST(PickleTest, ClassesOfEveryWheel) {
    for (const char *module : {"nixl", "nixl_cu12", "nixl_cu13", "nixl_rocm"}) {
        const auto list =
            readPickledList(front(std::string(module) + "._bindings", "nixlXferDList") + "C\x01xb.");
        ASSERT_TRUE(list.ok()) << module;
        EXPECT_EQ(list.value().state, "x");
    }
}

TEST(PickleTest, FramesAndMemoAnywhere) {
    // Python puts a large state outside of frames and notes each object, in one of three ways.
    const std::string frame = "\x95" + test::u64(3);
    const std::string bytes = "\x80\x05" + frame + shortText("nixl._bindings") + "\x94" +
                              shortText("nixlRegDList") + "q\x07\x93r" + test::i32(9) + ")\x81\x94" + "\x8e" +
                              test::u64(2) + "xy" + "\x94" + frame + "b.";
    const auto list = readPickledList(bytes);
    ASSERT_TRUE(list.ok()) << list.status().message();
    EXPECT_EQ(list.value().state, "xy");
}

TEST(PickleTest, LongerTextOpcodes) {
    const std::string bytes = "\x80\x04X" + test::i32(14) + "nixl._bindings" + "\x8d" + test::u64(12) +
                              "nixlRegDList" + "\x93)\x81" + "C\x01xb.";
    EXPECT_TRUE(readPickledList(bytes).ok());
}

// Protocol 2 has no bytes; Python writes them as a text that is to be encoded as latin1.
std::string
protocol2(const std::string &text, const std::string &encoding) {
    const auto utf8 = [](const std::string &string) {
        return "X" + test::i32(static_cast<std::uint32_t>(string.size())) + string;
    };
    return "\x80\x02"
           "cnixl._bindings\nnixlXferDList\nq" +
           std::string(1, '\0') +
           ")\x81"
           "c_codecs\nencode\n" +
           utf8(text) + utf8(encoding) + "\x86Rb.";
}

TEST(PickleTest, Protocol2) {
    const auto list = readPickledList(protocol2("a\xc2\x80\xc3\xbf|", "latin1"));
    ASSERT_TRUE(list.ok()) << list.status().message();
    EXPECT_EQ(list.value().state, "a\x80\xff|");
    EXPECT_EQ(refusal(protocol2("a\xc4\x80", "latin1")),
              "the list's state is not a latin1 text at its byte 1");
    EXPECT_EQ(refusal(protocol2("a\xc3", "latin1")), "the list's state is not a latin1 text at its byte 1");
    EXPECT_EQ(refusal(protocol2("\xc3z", "latin1")), "the list's state is not a latin1 text at its byte 0");
    EXPECT_EQ(refusal(protocol2("a", "utf-8")), "the list's state has encoding 'utf-8'");
}

TEST(PickleTest, BytesBehindThePickleAreIgnored) {
    EXPECT_TRUE(readPickledList(writePickledList(PickledKind::kXferList, "x") + "more").ok());
}

TEST(PickleTest, C22_HostilePayloadsAreRefusedByName) {
    // os.system("id") in protocols 0 and 4, as pickle.dumps writes it for a crafted object.
    EXPECT_EQ(refusal("cposix\nsystem\np0\n(Vid\np1\ntp2\nRp3\n."),
              "opcode GLOBAL (0x63) at byte 0 of the pickle where PROTO (0x80) is expected");
    EXPECT_EQ(
        refusal("\x80\x04" + shortText("posix") + shortText("system") + "\x93" + shortText("id") + "\x85R."),
        "the pickle names 'system' of module 'posix'; only descriptor lists are read");
    EXPECT_EQ(refusal("\x80\x02"
                      "cbuiltins\neval\n(X" +
                      test::i32(1) + "1tR."),
              "the pickle names 'eval' of module 'builtins'; only descriptor lists are read");
    // The right module with another name, the right name in another module, a dotted way out.
    EXPECT_EQ(refusal(front("nixl._bindings", "nixlAgent") + "C\x01xb."),
              "the pickle names 'nixlAgent' of module 'nixl._bindings'; only descriptor lists are read");
    EXPECT_EQ(refusal(front("evil._bindings", "nixlXferDList") + "C\x01xb."),
              "the pickle names 'nixlXferDList' of module 'evil._bindings'; only descriptor lists are read");
    EXPECT_EQ(refusal(front("nixl.bindings", "nixlRegDList") + "C\x01xb."),
              "the pickle names 'nixlRegDList' of module 'nixl.bindings'; only descriptor lists are read");
    EXPECT_EQ(
        refusal(front("nixl._bindings", "nixlXferDList.__init__.__globals__") + "C\x01xb."),
        "the pickle names 'nixlXferDList.__init__.__globals__' of module 'nixl._bindings'; only descriptor "
        "lists are read");
    // A call where the state should be.
    EXPECT_EQ(
        refusal(front("nixl._bindings", "nixlXferDList") + "cos\nsystem\nX" + test::i32(2) + "id\x85Rb."),
        "the pickle names 'system' of module 'os' where the list's state is expected");
    EXPECT_EQ(refusal(front("nixl._bindings", "nixlXferDList") + "cevil\nencode\nX" + test::i32(1) + "xX" +
                      test::i32(6) + "latin1\x86Rb."),
              "the pickle names 'encode' of module 'evil' where the list's state is expected");
    EXPECT_EQ(refusal("\x80\x04" + shortText("nixl._bindings") + shortText("nixlXferDList") + "\x93)R."),
              "opcode REDUCE (0x52) at byte 35 of the pickle where NEWOBJ (0x81) is expected");
}

TEST(PickleTest, C22_OtherOpcodesAreRefusedByName) {
    const std::string class4 = front("nixl._bindings", "nixlXferDList");
    EXPECT_EQ(
        refusal(class4 + "}b."),
        "opcode EMPTY_DICT (0x7d) at byte 36 of the pickle where the list's state as bytes is expected");
    EXPECT_EQ(
        refusal(class4 + "\x96" + test::u64(1) + "xb."),
        "opcode BYTEARRAY8 (0x96) at byte 36 of the pickle where the list's state as bytes is expected");
    EXPECT_EQ(refusal(class4 + "h\0b."),
              "opcode BINGET (0x68) at byte 36 of the pickle where the list's state as bytes is expected");
    EXPECT_EQ(refusal(class4 + "C\x01x\x94R."),
              "opcode REDUCE (0x52) at byte 40 of the pickle where BUILD (0x62) is expected");
    EXPECT_EQ(refusal(class4 + "C\x01xb0N."),
              "opcode POP (0x30) at byte 40 of the pickle where STOP (0x2e) is expected");
    EXPECT_EQ(refusal("\x80\x04\x82\x01."),
              "opcode EXT1 (0x82) at byte 2 of the pickle where a text is expected");
    EXPECT_EQ(refusal("\x80\x04P1\n."),
              "opcode PERSID (0x50) at byte 2 of the pickle where a text is expected");
    EXPECT_EQ(refusal(std::string("\x80\x04\0", 3)),
              "opcode unknown (0x00) at byte 2 of the pickle where a text is expected");
    EXPECT_EQ(refusal("\x80\x06."), "the pickle has protocol 6, readable are 2 to 5");
    EXPECT_EQ(refusal("\x80\x01."), "the pickle has protocol 1, readable are 2 to 5");
    EXPECT_EQ(refusal(""), "the pickle ends too early: 1 bytes are expected at byte 0, 0 follow");
    EXPECT_EQ(refusal("\x80\x02"
                      "cnixl._bindings"),
              "the pickle ends within a line at byte 3");
}

TEST(PickleTest, HugeLengthsAreRefused) {
    const std::string class4 = front("nixl._bindings", "nixlXferDList");
    EXPECT_EQ(refusal(class4 + "\x8e" + test::u64(~0ull) + "xb."),
              "the pickle ends too early: 18446744073709551615 bytes are expected at byte 45, 3 follow");
    EXPECT_EQ(refusal(class4 + "B" + test::i32(0xffffffff) + "xb."),
              "the pickle ends too early: 4294967295 bytes are expected at byte 41, 3 follow");
    EXPECT_EQ(refusal("\x80\x04\x8d" + test::u64(~0ull - 8) + "x"),
              "the pickle ends too early: 18446744073709551607 bytes are expected at byte 11, 1 follow");
}

TEST(PickleTest, MessagesShowForeignNamesPrintable) {
    EXPECT_EQ(refusal(front("\x1b[31m", "a\nb") + "."),
              "the pickle names 'a?b' of module '?[31m'; only descriptor lists are read");
    const std::string message = refusal(front(std::string(200, 'm'), "n") + ".");
    EXPECT_NE(message.find("'" + std::string(80, 'm') + "...'"), std::string::npos);
    EXPECT_LT(message.size(), 200u);
}

TEST(PickleTest, C22_SizeOfSerialisedDescriptors) {
    nixl_xfer_dlist_t list(DRAM_SEG);
    list.addDesc(nixlBasicDesc(0x7f0000000000, 16384, 0));
    EXPECT_LT(writePickledList(PickledKind::kXferList, serializeList(list)).size(), 169u);
    while (list.descCount() < 15000)
        list.addDesc(
            nixlBasicDesc(0x7f0000000000 + 32768ull * static_cast<unsigned>(list.descCount()), 16384, 0));
    const std::string bytes = writePickledList(PickledKind::kXferList, serializeList(list));
    EXPECT_LE(bytes.size(), 15000u * 32);
    EXPECT_EQ(parseXferList(readPickledList(bytes).value().state).value(), list);
}

} // namespace
} // namespace nixl

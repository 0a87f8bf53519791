#include "engines/ucx/candidates.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace nixl::ucx {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class UcxCandidates : public testing::Test {
protected:
    /// A folder with a UCX in it, made of a look-alike, and these modules.
    std::string
    install(const std::string &name, const char *file, const std::vector<std::string> &modules = {}) const {
        const fs::path folder = root_.file(name);
        fs::create_directories(folder / "ucx");
        for (const char *part : {kUcpFile, kUcsFile})
            fs::copy_file(file, folder / part);
        for (const std::string &module : modules)
            root_.write(name + "/ucx/libuct_" + module + ".so.0", "");
        return folder;
    }

    std::vector<Probe>
    probeAll(const Places &places) const {
        std::vector<Probe> out;
        const Result<std::vector<Candidate>> found = listCandidates(places);
        for (const Candidate &candidate : found.value())
            out.push_back(probeCandidate(candidate));
        return out;
    }

    static std::vector<std::string>
    folders(const std::vector<Candidate> &candidates) {
        std::vector<std::string> out;
        for (const Candidate &candidate : candidates)
            out.push_back(candidate.folder);
        return out;
    }

    const test::TempDir root_;
};

TEST_F(UcxCandidates, ComeInOrder) {
    const std::string ucx = install("site/nixl/lib/ucx", NIXL_TEST_UCX_GOOD);
    const std::string near = install("site/libucx/lib", NIXL_TEST_UCX_GOOD);
    const std::string wheel = install("other/libucx/lib", NIXL_TEST_UCX_GOOD);
    const std::string configured = install("built", NIXL_TEST_UCX_GOOD);
    const std::string path = install("path", NIXL_TEST_UCX_GOOD);
    const std::string system = install("system", NIXL_TEST_UCX_GOOD);
    Places places;
    places.beside = root_.file("site/nixl/lib");
    places.wheels = {root_.file("other/libucx")};
    places.configured = configured;
    places.searchPath = concat("relative::", root_.file("empty"), ":", path);
    places.system = {"/nowhere", system};
    const Result<std::vector<Candidate>> found = listCandidates(places);
    ASSERT_TRUE(found.ok());
    EXPECT_THAT(folders(found.value()), ElementsAre(ucx, near, wheel, configured, path, system));
    EXPECT_THAT(found.value()[4].origin, HasSubstr("LD_LIBRARY_PATH"));
}

TEST_F(UcxCandidates, TheSameLibraryCountsOnce) {
    const std::string real = install("real", NIXL_TEST_UCX_GOOD);
    fs::create_directory_symlink(real, root_.file("link"));
    Places places;
    places.searchPath = concat(root_.file("link"), ":", real);
    places.system = {real};
    EXPECT_THAT(folders(listCandidates(places).value()), ElementsAre(real));
}

TEST_F(UcxCandidates, TheChosenOneIsTheOnlyOne) {
    install("prefix/lib", NIXL_TEST_UCX_GOOD);
    Places places;
    places.system = {install("system", NIXL_TEST_UCX_GOOD)};
    places.chosen = root_.file("prefix");
    EXPECT_THAT(folders(listCandidates(places).value()), ElementsAre(root_.file("prefix/lib")));
    places.chosen = root_.file("prefix/lib");
    EXPECT_THAT(folders(listCandidates(places).value()), ElementsAre(root_.file("prefix/lib")));
    places.chosen = root_.path();
    const Status none = listCandidates(places).status();
    EXPECT_EQ(none.code(), NIXL_ERR_BACKEND);
    EXPECT_THAT(none.message(), HasSubstr("NIXL_UCX_DIR is '" + root_.path()));
}

TEST_F(UcxCandidates, AreJudgedByTheirFiles) {
    const Probe good = probeCandidate({install("good", NIXL_TEST_UCX_GOOD, {"cma", "ib_mlx5", "cuda"}), "x"});
    EXPECT_EQ(good.refusal, "");
    EXPECT_EQ(good.version, "1.30.0");
    EXPECT_THAT(good.transports, ElementsAre("cma", "cuda", "ib_mlx5"));
    EXPECT_TRUE(good.drivesRdma());

    const Probe old = probeCandidate({install("old", NIXL_TEST_UCX_OLD), "x"});
    EXPECT_THAT(old.refusal, HasSubstr("version 1.18.1 is too old; 1.19 or newer"));
    EXPECT_FALSE(old.drivesRdma());

    const Probe lacking = probeCandidate({install("lacking", NIXL_TEST_UCX_LACKING), "x"});
    EXPECT_THAT(lacking.refusal, HasSubstr("it lacks ucp_"));

    const std::string broken = install("broken", NIXL_TEST_UCX_GOOD);
    fs::resize_file(broken + "/" + kUcpFile, 3000);
    EXPECT_THAT(probeCandidate({broken, "x"}).refusal, HasSubstr("is no usable library"));
}

TEST_F(UcxCandidates, VersionsAreCompared) {
    EXPECT_EQ(judgeVersion("1.19.0"), "");
    EXPECT_EQ(judgeVersion("1.100.2"), "");
    EXPECT_THAT(judgeVersion("1.9.0"), HasSubstr("too old"));
    EXPECT_THAT(judgeVersion("0.99.0"), HasSubstr("too old"));
    EXPECT_THAT(judgeVersion("2.0.0"), HasSubstr("not known"));
    EXPECT_THAT(judgeVersion("one"), HasSubstr("not understood"));
    EXPECT_THAT(judgeVersion("1."), HasSubstr("not understood"));
}

TEST_F(UcxCandidates, TheFirstUsableOneWins) {
    Places places;
    places.system = {install("old", NIXL_TEST_UCX_OLD), install("a", NIXL_TEST_UCX_GOOD),
                     install("b", NIXL_TEST_UCX_GOOD, {"ib"})};
    const Result<Choice> choice = choose(probeAll(places), {}, false);
    ASSERT_TRUE(choice.ok());
    EXPECT_EQ(choice.value().order.front().candidate.folder, root_.file("a"));
    EXPECT_EQ(choice.value().reason, "installed on the system");
    EXPECT_EQ(choice.value().warning, "");
    EXPECT_THAT(choice.value().notes, ElementsAre(HasSubstr("1.18.1 is too old")));
}

TEST_F(UcxCandidates, RdmaDevicesDecide) {
    Places places;
    places.system = {install("a", NIXL_TEST_UCX_GOOD, {"cma"}), install("b", NIXL_TEST_UCX_GOOD, {"ib"})};
    const Result<Choice> choice = choose(probeAll(places), {"mlx5_0"}, false);
    ASSERT_TRUE(choice.ok());
    EXPECT_EQ(choice.value().order.front().candidate.folder, root_.file("b"));
    EXPECT_EQ(choice.value().order.size(), 2u);
    EXPECT_THAT(choice.value().reason, HasSubstr("drives the RDMA devices of this host (mlx5_0)"));
    EXPECT_EQ(choice.value().warning, "");
}

TEST_F(UcxCandidates, RdmaThatNobodyDrivesIsAWarningWithTheFix) {
    Places places;
    places.system = {install("a", NIXL_TEST_UCX_GOOD)};
    const Result<Choice> choice = choose(probeAll(places), {"mlx5_0", "mlx5_1"}, false);
    ASSERT_TRUE(choice.ok());
    EXPECT_THAT(choice.value().warning, HasSubstr("mlx5_0, mlx5_1"));
    EXPECT_THAT(choice.value().warning, HasSubstr("NIXL_UCX_DIR"));
    // Who chose it knows.
    places.chosen = root_.file("a");
    const Result<Choice> chosen = choose(probeAll(places), {"mlx5_0"}, true);
    EXPECT_EQ(chosen.value().warning, "");
    EXPECT_THAT(chosen.value().notes, ElementsAre(HasSubstr("goes over TCP")));
}

TEST_F(UcxCandidates, NoneAtAllSaysWhatToInstall) {
    const Status none = choose({}, {}, false).status();
    EXPECT_EQ(none.code(), NIXL_ERR_BACKEND);
    EXPECT_THAT(none.message(), HasSubstr("none was found"));
    EXPECT_THAT(none.message(), HasSubstr("libucx-cu13"));
    Places places;
    places.system = {install("old", NIXL_TEST_UCX_OLD)};
    EXPECT_THAT(choose(probeAll(places), {}, false).status().message(),
                HasSubstr("UCX 1.18.1 in '" + root_.file("old") + "' (installed on the system): version"));
}

TEST_F(UcxCandidates, RdmaCountsWhereTheProcessMayOpenIt) {
    HostDevices host;
    host.rdma["mlx5_0"] = {1};
    EXPECT_THAT(usableRdma(host, root_.path()), IsEmpty());
    fs::create_directories(root_.file("infiniband"));
    root_.write("infiniband/rdma_cm", "");
    EXPECT_THAT(usableRdma(host, root_.path()), IsEmpty());
    root_.write("infiniband/uverbs0", "");
    EXPECT_THAT(usableRdma(host, root_.path()), ElementsAre("mlx5_0"));
}

} // namespace
} // namespace nixl::ucx

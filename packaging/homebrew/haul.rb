# haul for Homebrew on Linux. `cargo xtask dist --source URL` fills in the archive.
class Haul < Formula
  desc "Copies files between hosts: fast, encrypted, verified; names the bottleneck"
  homepage "@HOMEPAGE@"
  url "@URL@/haul-@VERSION@.tar.gz"
  sha256 "@SHA256@"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on "rust" => :build
  depends_on :linux

  def install
    system "cargo", "build", "--locked", "--profile", "dist", "--package", "haul"
    bin.install Dir["target/*/dist/haul"].first
    doc.install "packaging/notices.txt"
    manual = Utils.safe_popen_read(bin/"haul", "man")
    (man1/"haul.1").write manual
    manual.scan(/^haul\\-(\w+)\(1\),$/).flatten.each do |command|
      (man1/"haul-#{command}.1").write Utils.safe_popen_read(bin/"haul", "man", command)
    end
    generate_completions_from_executable(bin/"haul", "completions")
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/haul --version")
    assert_match "identical", shell_output("#{bin}/haul demo --size 10m 2>&1")
  end
end

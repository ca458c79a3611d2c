# haul for nixpkgs: `pkgs.callPackage ./package.nix { }`.
{
  lib,
  rustPlatform,
  glibc,
  installShellFiles,
  openssh,
  stdenv,
  src ? ../..,
}:

let
  workspace = (lib.importTOML (src + "/Cargo.toml")).workspace.package;
in
rustPlatform.buildRustPackage {
  pname = "haul";
  inherit (workspace) version;
  inherit src;

  cargoLock.lockFile = src + "/Cargo.lock";
  buildType = "dist";
  cargoBuildFlags = [ "--package=haul" ];

  # The executable is static: haul copies it to hosts of any distribution.
  buildInputs = [ glibc.static ];
  nativeBuildInputs = [ installShellFiles ];

  # End-to-end tests need sshd and network namespaces, which the sandbox of Nix has not.
  nativeCheckInputs = [ openssh ];
  cargoTestFlags = [ "--workspace" "--bin=haul" ];

  postInstall = ''
    install -D -m 644 -t $out/share/doc/haul packaging/notices.txt
  '' + lib.optionalString (stdenv.buildPlatform.canExecute stdenv.hostPlatform) ''
    $out/bin/haul man > haul.1
    for page in $(sed -n 's/^haul\\-\(.*\)(1),$/\1/p' haul.1); do $out/bin/haul man $page > haul-$page.1; done
    installManPage haul*.1
    installShellCompletion --cmd haul \
      --bash <($out/bin/haul completions bash) \
      --zsh <($out/bin/haul completions zsh) \
      --fish <($out/bin/haul completions fish)
  '';

  meta = {
    description = "Copies files between hosts: fast, encrypted, verified; names the bottleneck";
    inherit (workspace) homepage;
    license = with lib.licenses; [ mit asl20 ];
    platforms = [ "x86_64-linux" "aarch64-linux" ];
    mainProgram = "haul";
  };
}

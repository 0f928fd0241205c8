"""ADD A TOPOLOGY FORMAT HERE: leaf switches of nodes and NICs, from files of schedulers and network tools."""

from dcfsc.cli import main

main()

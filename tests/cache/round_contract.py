class RoundContract:
    pass

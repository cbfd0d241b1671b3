"""Recurrent networks of Keras, as layers applied to |x|, and cells of TensorFlow 1."""

KERAS = {
    "lstm": "L.LSTM(4)(x)",
    "lstm_sequences": "L.LSTM(4, return_sequences=True)(x)",
    "lstm_states": "L.LSTM(4, return_sequences=True, return_state=True)(x)",
    "lstm_backward": "L.LSTM(4, return_sequences=True, go_backwards=True)(x)",
    "lstm_apart": "L.LSTM(4, implementation=1, return_sequences=True)(x)",
    "lstm_without_bias": "L.LSTM(4, use_bias=False)(x)",
    "lstm_relu": "L.LSTM(4, activation='relu', return_sequences=True)(x)",
    "lstm_sigmoid": "L.LSTM(4, activation='sigmoid', return_sequences=True)(x)",
    "lstm_stacked": "L.LSTM(6)(L.LSTM(4, return_sequences=True)(x))",
    "lstm_initial": "L.LSTM(4)(x, initial_state=[x[:, 0, :4], x[:, 1, 1:]])",
    "gru": "L.GRU(4)(x)",
    "gru_sequences": "L.GRU(4, return_sequences=True)(x)",
    "gru_before": "L.GRU(4, reset_after=False, return_sequences=True)(x)",
    "gru_apart": "L.GRU(4, implementation=1, return_sequences=True)(x)",
    "gru_before_apart": "L.GRU(4, implementation=1, reset_after=False, return_sequences=True)(x)",
    "gru_backward": "L.GRU(4, go_backwards=True, return_sequences=True)(x)",
    "rnn": "L.SimpleRNN(4)(x)",
    "rnn_sequences": "L.SimpleRNN(4, return_sequences=True)(x)",
    "bidirectional": "L.Bidirectional(L.LSTM(4, return_sequences=True))(x)",
    "bidirectional_last": "L.Bidirectional(L.GRU(4), merge_mode='sum')(x)",
    "bidirectional_stacked": "L.Bidirectional(L.GRU(3))(L.Bidirectional(L.LSTM(4, return_sequences=True))(x))",
    "lstm_open": "L.LSTM(4, return_sequences=True)(x)",
    "gru_open": "L.GRU(4)(x)",
    "bidirectional_open": "L.Bidirectional(L.GRU(4))(L.Bidirectional(L.LSTM(4, return_sequences=True))(x))",
    "lstm_steps": "L.LSTM(4, return_sequences=True, return_state=True)(x)",
    "lstm_last_step": "L.LSTM(4)(x)",
    "gru_steps": "L.GRU(4)(x)",
    "bidirectional_steps": "L.Bidirectional(L.GRU(4))(L.Bidirectional(L.LSTM(4, return_sequences=True))(x))",
    "rnn_steps": "L.SimpleRNN(4)(x)",
    "lstm_masked": "L.LSTM(4)(x)",
    "lstm_masked_sequences": "L.LSTM(4, return_sequences=True)(x)",
    "gru_masked": "L.GRU(4, return_sequences=True)(x)",
    "bidirectional_masked": "L.Bidirectional(L.LSTM(4, return_sequences=True))(x)",
}
# NAME: the cell, backward.
V1 = {
    "lstm_v1": ("lstm", False),
    "lstm_backward_v1": ("lstm", True),
    "gru_v1": ("gru", False),
    "rnn_v1": ("rnn", False),
    "lstm_open_v1": ("lstm", False),
    "lstm_steps_v1": ("lstm", False),
    "gru_steps_v1": ("gru", True),
}
# The batch is known, the number of steps is open and may be 0: without a known batch TensorFlow has no result then.
OPEN_STEPS = {name for name in (*KERAS, *V1) if "_step" in name}
# Batch and time are open.
OPEN_SIZES = {"lstm_open", "gru_open", "bidirectional_open", "lstm_open_v1"}
